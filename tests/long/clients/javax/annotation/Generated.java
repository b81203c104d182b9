package javax.annotation;

/** The annotation of generated code; the library that has it is not in openapi-generator's jar. */
public @interface Generated {
  String[] value();

  String date() default "";

  String comments() default "";
}

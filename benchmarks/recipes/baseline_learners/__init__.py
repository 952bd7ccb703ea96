"""What others would run on the same windows: MI-SVM, WSDDN, and WSDDN with OICR's refinement heads."""
